"""`python -m tokimori` is the program `tokimori`."""

from tokimori.cli.main import main

main()
