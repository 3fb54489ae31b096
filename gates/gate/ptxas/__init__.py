"""The ptxas gate: compiled resources within their budget."""
