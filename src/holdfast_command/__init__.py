"""The `holdfast` command, before anything is imported: Ctrl-C during the imports ends it without a traceback."""

import gc


def main() -> None:
    try:
        gc.disable()  # imports make many objects and no cycles; the command switches it on when it is loaded
        from holdfast.cli import main as command

        command()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
