return survey()
