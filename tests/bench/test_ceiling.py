"""pgbench is given our statements as they are, every parameter of them."""

import re

import pytest

from bench import ceiling
from holdfast.db.database import Database


def test_every_parameter_is_given() -> None:
    script = ceiling.script(Database("postgresql://nowhere/"))
    assert not re.search(r"\$\d", script)
    given = set(re.findall(r"(?<![:\w]):([a-z_]\w*)", script))
    assert given - {"client_id", "ids", "generations"} == ceiling.VARIABLES.keys()


def test_a_parameter_that_nobody_gives_is_refused() -> None:
    with pytest.raises(AssertionError, match=r"has parameters \[1, 2\], we give \[1\]"):
        ceiling.given("select $1, $2 -- and $3 in a comment", {1: ":a"})


def test_a_parameter_that_is_gone_is_refused() -> None:
    with pytest.raises(AssertionError, match=r"has parameters \[1\], we give \[1, 2\]"):
        ceiling.given("select $1", {1: ":a", 2: ":b"})
