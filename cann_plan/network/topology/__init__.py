"""Network topologies as structured graphs: loads, routing, components, times of collectives on them."""
