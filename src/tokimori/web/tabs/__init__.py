"""Tabs of the page of a job: a module and a template `job_<tab>.html` for each, and a line in `screens/job.py`."""
