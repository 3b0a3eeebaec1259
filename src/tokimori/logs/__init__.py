"""Log lines: text or JSON, to standard error or a file."""
