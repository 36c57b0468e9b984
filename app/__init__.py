"""The dashboard: Streamlit pages over simcore. No arithmetic of its own.

Start with `specplan app`. Reading order: `streamlit_app.py` (the frame), `inputs.py` (the sidebar
that builds the one scenario all pages share), `app_pages/decide.py` (the first page).
"""
