"""What an import understood, as a picture."""

from typing import Any

import plotly.graph_objects as go

from simcore.report.style import colour, dash, label, marker, new_figure


def imported_survival_figure(described: dict[str, Any]) -> go.Figure | None:
    """Survival by position of every record and γ of `describe_reading`; None without any."""
    figure = new_figure(
        "Survival by position, as the engine counted",
        "draft position k",
        "survival s_k (share of cycles)",
    )
    for record in described["records"]:
        for gamma, counts in record["gammas"].items():
            if counts["survival"] is None:
                continue
            index = len(figure.data)
            about = "" if record["domain"] is None else f", {label(record['domain'])}"
            figure.add_scatter(
                x=list(range(1, len(counts["survival"]) + 1)),
                y=counts["survival"],
                mode="lines+markers",
                name=f"γ = {gamma}{about}: {counts['mean_emitted_tokens']:.2f} tokens a cycle",
                line={"color": colour(index), "dash": dash(index)},
                marker={"symbol": marker(index), "size": 9},
                hovertemplate="position %{x}<br>s_k %{y:.3f}<extra></extra>",
            )
    if not figure.data:
        return None
    figure.update_xaxes(dtick=1)
    figure.update_yaxes(range=[0, 1.02])
    return figure
