"""Where Tokimori's truth is kept: one file or folder for each database."""
