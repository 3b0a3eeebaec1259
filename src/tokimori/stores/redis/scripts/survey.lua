return survey(ask.past)
