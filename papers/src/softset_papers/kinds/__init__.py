"""What a run of a table does: ``work(run, data_dir) -> result``, see ``runner.KINDS``."""
