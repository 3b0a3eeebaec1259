"""E-mails: the node sends them by a server of SMTP, and makes outcomes of what that says."""
