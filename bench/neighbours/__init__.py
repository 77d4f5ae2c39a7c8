"""Parts of the scenario `neighbours`: the requests and callbacks of others, and the attacks of one hostile address."""
