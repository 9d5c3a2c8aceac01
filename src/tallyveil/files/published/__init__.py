"""A release as tables to publish: CSV, Excel, Parquet and SDMX-CSV."""
