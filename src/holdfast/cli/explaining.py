"""Explanations, printed."""

from __future__ import annotations

import click

from ..model.explanation import Explanation
from .common import safe

WIDTH = 400


def print_explanation(found: Explanation) -> None:
    """Print the answer, what to do about it, and what holds as well."""
    if found.id is not None:
        what = f"{found.kind or '(no type)'} on queue {found.queue}, {found.status}"
        click.echo(safe(f"job {found.id} ({what})", WIDTH))
    for number, reason in enumerate(found.reasons):
        click.echo(safe(f"{'also: ' if number else ''}{reason.sentence}", WIDTH))
        if reason.remedy is not None:
            click.echo(safe(f"  → {reason.remedy}", WIDTH))
