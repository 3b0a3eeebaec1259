"""For tests of jobs and of clusters: a node ticked by hand, and a checker of what nodes have done."""
