"""What the services of this folder have done in the background, within their own processes or by workers beside them.

    tokimori worker jobs:app

`DELIVERIES` names a file that gets a line for each delivery that begins, and one for each that ends.
"""

import os
import time

import tokimori

app = tokimori.App("web")


@app.job(max_running=0, attempts=3)
def deliver(order: int, seconds: float = 0.0) -> str:
    """Deliver an order, in so many seconds."""
    task = tokimori.current_task()
    note(f"begun {order} {task.run_id} {task.attempt}")
    time.sleep(seconds)
    note(f"ended {order} {task.run_id} {task.attempt}")
    return f"order {order} is delivered"


@app.job("@daily")
async def report() -> str:
    """Report, once a day, however many processes there are."""
    return "the report of the day"


def note(line: str) -> None:
    """Write a line at once."""
    if file := os.environ.get("DELIVERIES"):
        with open(file, "a") as opened:
            opened.write(f"{line}\n")
