"""Put two sides of evidence beside each other, row by row. Judges nothing and checks no run."""
