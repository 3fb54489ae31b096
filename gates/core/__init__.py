"""What every part shares: errors, records, strict JSON and YAML, text, folders. Imports nothing else of gates."""
