"""gunicorn -c gunicorn.conf.py 'service:create_app()'"""

bind = "127.0.0.1:8000"
worker_class = "uvicorn_worker.UvicornWorker"  # pip install uvicorn-worker
workers = 2  # each holds the model in memory
timeout = 120  # seconds until a worker without a sign of life is killed: a model takes time to load

# A process that has used CUDA cannot be forked: each worker makes the application itself.
preload_app = False
