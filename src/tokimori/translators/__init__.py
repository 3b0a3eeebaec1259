"""Foreign formats, one file each; nothing of them goes past here."""
