"""Operations that users ask for: they are checked and carried out here."""
