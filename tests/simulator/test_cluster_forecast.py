"""How long a build still takes, from what it has compiled."""

import msgspec

from simulator.cluster.forecast import (
    FIRST,
    PACKAGE_COST,
    START_COST,
    Forecast,
    Package,
    listed,
)


def row(count: int) -> dict[str, Package]:
    """Return packages that each import the one before."""
    names = [f"p{number}" for number in range(count)]
    return {
        name: Package(imports=(before,) if before else ())
        for before, name in zip(["", *names], names, strict=False)
    }


def after(forecast: Forecast, count: int, seconds_each: float) -> str:
    """Return what is stated when so many packages have begun, one after the other."""
    for number in range(count):
        forecast.read(f"p{number}", number * seconds_each)
    return forecast.words(count * seconds_each)


def test_nothing_is_promised_before_the_hundredth_package() -> None:
    assert after(Forecast(row(1000), {}), FIRST - 1, 1.0) == "99 of 1,000 packages"


def test_from_the_hundredth_on_the_pace_so_far_is_that_of_the_rest() -> None:
    stated = after(Forecast(row(1000), {}), FIRST, 1.0)

    assert stated == "100 of 1,000 packages, about 15 min left"


def test_a_slower_machine_takes_longer() -> None:
    assert after(Forecast(row(1000), {}), FIRST, 4.0).endswith("about 60 min left")


def test_large_packages_take_longer() -> None:
    large = {f"p{number}": START_COST for number in range(FIRST, 1000)}

    assert after(Forecast(row(1000), large), FIRST, 1.0).endswith("about 30 min left")


def test_packages_that_build_on_many_others_take_longer() -> None:
    high = {
        name: msgspec.structs.replace(package, builds_on=START_COST // PACKAGE_COST)
        for name, package in row(1000).items()
        if int(name[1:]) >= FIRST
    }

    assert after(Forecast({**row(1000), **high}, {}), FIRST, 1.0).endswith("about 30 min left")


def test_what_go_has_in_its_cache_takes_no_time() -> None:
    """Go does not name it: 500 packages of a build that was broken off are there already."""
    forecast = Forecast(row(1000), {})
    for number in range(500, 500 + FIRST):
        forecast.read(f"p{number}", float(number - 500))

    assert forecast.words(float(FIRST)) == "600 of 1,000 packages, about 7 min left"


def test_the_end_is_near_in_words_too() -> None:
    assert after(Forecast(row(110), {}), 105, 1.0) == "105 of 110 packages, less than a minute left"


def test_other_lines_of_go_are_no_packages() -> None:
    forecast = Forecast(row(2), {})
    forecast.read("# runtime/cgo", 0.0)

    assert forecast.words(1.0) == "0 of 2 packages"


def test_modules_are_counted_while_the_packages_are_not_known() -> None:
    forecast = Forecast({}, {})
    for line in ("go: downloading k8s.io/api v0.37.1", "go: downloading k8s.io/client-go v0.37.1"):
        forecast.read(line, 0.0)

    assert forecast.words(1.0) == "2 modules fetched"


def test_packages_are_read_from_what_go_lists() -> None:
    packages = listed("unsafe\t/go/unsafe\t\t0\t\nfmt\t/go/fmt\tdoc.go print.go\t40\tos unsafe\n")

    assert packages["unsafe"] == Package()
    assert packages["fmt"] == Package(("/go/fmt/doc.go", "/go/fmt/print.go"), 40, ("os", "unsafe"))
