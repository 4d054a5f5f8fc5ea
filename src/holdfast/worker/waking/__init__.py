"""Wake-ups: one listener per host hears that work has arrived, and wakes workers that sleep."""
