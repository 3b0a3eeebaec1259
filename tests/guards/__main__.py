"""`python -m tests.guards`: write the page of guards."""

from tests.guards.guards import PAGE, page

if __name__ == "__main__":
    PAGE.write_text(page())
