from holdfast_command import main

main()
