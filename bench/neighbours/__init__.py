"""Parts of the scenario `neighbours`: what others ask for, what one hostile address does, whose callbacks wait."""
