"""What users ask for: it is checked and carried out here."""
