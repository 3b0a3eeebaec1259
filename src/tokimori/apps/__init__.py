"""Apps: functions of a program that are jobs, the processes that run them, and what a function knows of its run."""
