"""Matching inside a Spark job of your own: DataFrames in, a lazy DataFrame out.

.venv/bin/python examples/frames.py
"""

from __future__ import annotations

from crossroads.pipeline import check_subscriptions, match, schema_from_frame
from crossroads.pipeline.session import spark_session


def main() -> None:
    spark = spark_session()  # yours, if one is running; otherwise Spark on this machine
    orders = spark.createDataFrame(
        [
            ("o1", "paid", 120.0, ("Lima", "PE")),
            ("o2", "open", 80.0, ("Cusco", "PE")),
            ("o3", "paid", None, ("Porto", "PT")),
        ],
        "id string, state string, total double, ship struct<city: string, country: string>",
    )
    subscriptions = spark.createDataFrame(
        [
            ("big", "ada", "state = 'paid' AND total >= 100"),
            ("peru", "bob", "ship.country = 'PE' AND NOT startswith(ship.city, 'Li')"),
            ("oops", "cem", "totl > 5"),
        ],
        "id string, subscriber string, filter string",
    )
    schema = schema_from_frame(orders, id=["id"])  # or the path of a TOML file
    check_subscriptions(subscriptions, schema).show(truncate=False)
    notifications = match(orders, subscriptions, schema, include=["total"], on_rejected="ignore")
    notifications.show()
    spark.stop()


if __name__ == "__main__":
    main()
