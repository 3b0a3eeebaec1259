"""Functions of a shop, which the worker of compose.yaml runs."""

import tokimori

app = tokimori.App("shop")


@app.job("every 1 minute", attempts=3, retry_delay=10)
def count() -> int:
    """Count what there is to count."""
    print("counting")
    return 3
