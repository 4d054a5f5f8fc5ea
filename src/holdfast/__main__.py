"""`python -m holdfast` is the command `holdfast`."""

from holdfast_command import main

main()
