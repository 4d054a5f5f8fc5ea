"""The `holdfast` command, before anything is imported: Ctrl-C during the imports ends it without a traceback."""


def main() -> None:
    try:
        from holdfast.cli import main as command

        command()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
