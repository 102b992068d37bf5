"""`python -m comband` is the command `comband`."""

from comband.commands.cli import main

if __name__ == "__main__":
    main()
