"""`python -m tidelog.cli`, where the `tidelog` script is not on the path."""

from tidelog.cli.main import main

main()
