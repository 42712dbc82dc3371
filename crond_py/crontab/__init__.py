"""The crontab: the model of the file and its loader."""
