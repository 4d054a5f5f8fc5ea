"""Wake-ups: one listener per host hears that work came and calls workers that sleep."""
