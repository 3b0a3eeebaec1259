"""Sets: jobs and resources that files and apps declare together."""
