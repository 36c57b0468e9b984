"""One file a page; each is run by `st.navigation` from top to bottom."""
