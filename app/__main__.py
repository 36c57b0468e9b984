"""`python -m app --host 127.0.0.1 --port 8501`: serve the dashboard."""

import argparse
import sys

from app.launch import DEFAULT_HOST, DEFAULT_PORT, launch

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m app", description="Serve the dashboard.")
    parser.add_argument("--host", default=DEFAULT_HOST, help="address to listen on")
    parser.add_argument("--port", default=DEFAULT_PORT, type=int, help="port to listen on")
    options = parser.parse_args()
    sys.exit(launch(options.host, options.port))
