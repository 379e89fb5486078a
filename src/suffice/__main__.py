"""``python -m suffice`` is the command line."""

from suffice.cli.main import run

if __name__ == "__main__":
    run()
