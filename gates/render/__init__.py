"""Records to text: terminal, Markdown, SVG, HTML, JUnit, SARIF. Decides nothing."""
