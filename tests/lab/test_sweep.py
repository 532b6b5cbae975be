"""A sweep on Spark: every configuration once, means and intervals, folders that stay whole."""

from __future__ import annotations

import json
from statistics import mean, stdev

import pytest

from crossroads.errors import InputError, OutputError, UsageError
from crossroads.lab.experiment import Scale
from crossroads.lab.experiments import EXPERIMENTS, experiment_of
from crossroads.lab.findings import NORMAL, STUDENT_T, Findings, Point
from crossroads.lab.run import read_results, run_experiments
from crossroads.lab.sweep import ROWS, Task, measured, summary_of
from crossroads.pipeline.job import Silent


class Watching(Silent):
    def __init__(self) -> None:
        self.stages: list[str] = []
        self.last = (0, 0)

    def stage(self, name: str) -> None:
        self.stages.append(name)

    def progress(self, done: int, total: int) -> None:
        assert done <= total
        self.last = (done, total)


@pytest.mark.spark
def test_a_sweep_finds_what_the_experiments_measure(spark, tmp_path, found):
    """Several at small scale in one sweep, against plain loops, which `test_claims` is about."""
    watching = Watching()
    results = run_experiments(("C7", "C11", "C5"), tmp_path, watching)
    assert [one.experiment.id for one in results] == ["C7", "C11", "C5"]
    assert watching.stages == ["spark", "measure"]
    count = sum(one.ran.configurations for one in results)
    assert watching.last == (count, count)
    for one in results:
        wanted = found(one.experiment.id)
        assert len(one.findings) == len(wanted)
        for own, other in zip(one.findings, wanted, strict=True):
            assert own[:3] == other[:3] and own.runs == other.runs == 2
            assert own.mean == pytest.approx(other.mean)
            assert own.margin == pytest.approx(other.margin, rel=1e-3, abs=1e-9)
    rows = spark.read.parquet(str(tmp_path / ROWS))
    configurations = rows.select("experiment", "configuration").distinct().count()
    assert configurations == count


@pytest.mark.spark
def test_running_again_replaces_one_and_keeps_the_others(spark, tmp_path):
    run_experiments(["C11", "c9"], tmp_path, Silent(), seeds=1)
    before = {one.experiment.id: one for one in read_results(tmp_path)}
    assert list(before) == ["C9", "C11"]
    (again,) = run_experiments(["C11"], tmp_path, Silent(), seeds=2)
    after = {one.experiment.id: one for one in read_results(tmp_path)}
    assert list(after) == ["C9", "C11"]
    assert (before["C11"].ran.seeds, after["C11"].ran.seeds, again.ran.seeds) == (1, 2, 2)
    assert len(after["C9"].findings) == len(before["C9"].findings)
    assert all(point.runs == 2 for point in after["C11"].findings)
    assert all(point.runs == 1 and point.margin == 0 for point in after["C9"].findings)


@pytest.mark.spark
def test_means_and_intervals_over_seeds(spark):
    values = {2: [1.0, 4.0], 5: [3.0, 3.5, 8.0, 1.0, 2.0], 40: [float(n % 7) for n in range(40)]}
    rows = [
        ("C0", "{}", seed, "s", "m", float(x), value)
        for x, given in values.items()
        for seed, value in enumerate(given)
    ]
    names = "experiment string, configuration string, seed bigint, series string, metric string"
    frame = spark.createDataFrame(rows, f"{names}, x double, value double")
    found = {row["x"]: row for row in summary_of(frame).collect()}
    for x, given in values.items():
        runs = len(given)
        quantile = STUDENT_T[runs - 2] if runs - 2 < len(STUDENT_T) else NORMAL
        assert found[x]["mean"] == pytest.approx(mean(given))
        assert found[x]["sd"] == pytest.approx(stdev(given))
        assert found[x]["margin"] == pytest.approx(quantile * stdev(given) / runs**0.5)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_task_measures_the_same_wherever_it_runs(name):
    experiment = experiment_of(name)
    first = min(experiment.configurations(Scale.SMALL, [3]), key=lambda one: one.cost)
    task = Task.of(experiment, first)
    assert json.loads(task.configuration)["seed"] == 3
    rows = measured(task.experiment, task.configuration)
    assert rows.num_rows and rows.equals(measured(task.experiment, task.configuration))


def test_unknown_experiments_and_impossible_seeds(tmp_path):
    with pytest.raises(UsageError, match=r"no experiment 'C55'; did you mean C5\?.*C5, C6"):
        run_experiments(["C55"], tmp_path, Silent())
    with pytest.raises(UsageError, match="--seeds must be 1 to 1,000, not 0"):
        run_experiments(["C5"], tmp_path, Silent(), seeds=0)
    with pytest.raises(UsageError, match="no experiment is named"):
        run_experiments([], tmp_path, Silent())
    assert not list(tmp_path.iterdir())


def test_a_folder_of_others_is_left_alone(tmp_path):
    (tmp_path / "diary.txt").write_text("mine")
    with pytest.raises(OutputError, match="not the lab's"):
        run_experiments(["C5"], tmp_path, Silent())
    with pytest.raises(InputError, match="holds no results"):
        read_results(tmp_path)
    (tmp_path / "lab.json").write_text("{half")
    with pytest.raises(InputError, match=r"lab\.json cannot be read"):
        read_results(tmp_path)


def test_points_say_their_interval():
    assert str(Point("s", "m", 0, 2.512, 0.1, 5, 0.0123)) == "2.51 ± 0.01"
    assert str(Point("s", "m", 0, 25_000.4, 10, 5, 12.3)) == "25,000 ± 12"
    assert str(Point("s", "m", 0, 2.512, 0.001, 5, 0.0012)) == "2.51 ± <0.01"
    assert str(Point("s", "m", 0, 1, 0, 5, 0)) == "1.00 ± 0.00"
    assert str(Point("s", "m", 0, 481.26, 0, 1, 0)) == "481.3"
    points = [Point("s", "m", x, x, 0, 1, 0) for x in (3.0, 1.0, 2.0)]
    assert [one.x for one in Findings(points).curve("s", "m")] == [1, 2, 3]
