"""What users ask for, checked and carried out."""
