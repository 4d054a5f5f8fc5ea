"""Histograms, and what is said of them."""

import random

import pytest

from holdfast.model.numbers import BOUNDS, BUCKETS, Attempts, Count, Gauge, Histogram, count_of


def test_a_sample_is_in_the_first_bucket_whose_bound_it_does_not_exceed() -> None:
    histogram = Histogram.of([0.0, BOUNDS[0], BOUNDS[0] * 1.01, 1.0, 1.5, BOUNDS[-1], BOUNDS[-1] + 1, 1e9])
    assert histogram.counts[:2] == [2, 1]
    assert histogram.counts[BOUNDS.index(1.0)] == histogram.counts[BOUNDS.index(2.0)] == 1
    assert histogram.counts[-2:] == [1, 2]
    assert (histogram.count, len(histogram.counts)) == (8, BUCKETS)


def test_cutting_in_parts_is_as_cutting_at_once() -> None:
    samples = [random.lognormvariate(-2, 3) for _ in range(5000)]
    whole, parts = Histogram.of(samples), Histogram()
    for begin in range(0, 5000, 37):
        parts.cut(samples[begin : begin + 37])
    assert parts.counts == whole.counts
    assert parts.sum == pytest.approx(whole.sum)


@pytest.mark.parametrize("share", [0.5, 0.95, 0.99])
def test_a_quantile_is_off_by_less_than_a_factor_of_two(share: float) -> None:
    samples = sorted(random.lognormvariate(-2, 1) for _ in range(5000))
    found = Histogram.of(list(samples)).quantile(share)
    real = samples[int(share * 5000)]
    assert found is not None
    assert real / 2 <= found <= real * 2


def test_quantiles_at_the_edges() -> None:
    assert Histogram().quantile(0.5) is None
    assert Histogram.of([1e9]).quantile(0.5) == BOUNDS[-1]
    assert Histogram.of([0.0] * 9).quantile(1.0) == BOUNDS[0]


def test_the_retry_rate() -> None:
    assert Attempts().retry_rate == 0
    assert Attempts(started=10, retried=2, dead=1, completed=7).retry_rate == 0.3
    assert Attempts(started=1, retried=5).retry_rate == 1, "those of workers that are gone count, too"


def test_an_estimate_stays_one_in_a_sum() -> None:
    gauges = [Gauge("jobs", 2.0), Gauge("jobs", 3.4, exact=False)]
    assert count_of(gauges) == Count(5, exact=False)
    assert str(count_of(gauges)) == "≈ 5"
    assert str(count_of(gauges[:1])) == "2"
