"""Workspaces: folders in which tasks are written as code, and how a build is made of one."""
