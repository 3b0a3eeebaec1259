"""Screens of the page: a module for each noun."""
