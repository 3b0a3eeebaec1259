"""Programs that talk by a channel, and note what was acknowledged and what was heard: `talkers.py URL ROLE NAME FILE`.

A publisher goes on behind the last number in its file. Each is killed and started again, again and again.
"""

import sys
from pathlib import Path

import tokimori


def publish(url: str, name: str, file: Path) -> None:
    """Publish numbers, each noted once it is acknowledged."""
    lines = file.read_text().split() if file.exists() else []
    with tokimori.open(url, author=name) as client, file.open("a") as notes:
        for n in range(int(lines[-1]) + 1 if lines else 0, 10**9):
            client.channels.publish("talk", [name, n])
            notes.write(f"{n}\n")
            notes.flush()


def listen(url: str, name: str, file: Path) -> None:
    """Note each message before the next one is asked for."""
    with tokimori.open(url) as client, file.open("a") as notes:
        for message in client.channels.subscribe("talk", name=name):
            notes.write(f"{message.number} {message.data[0]} {message.data[1]}\n")
            notes.flush()


if __name__ == "__main__":
    {"publish": publish, "listen": listen}[sys.argv[2]](sys.argv[1], sys.argv[3], Path(sys.argv[4]))
