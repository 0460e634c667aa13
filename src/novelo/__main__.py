"""`python -m novelo` is the command line."""

from novelo.cli import main

main()
