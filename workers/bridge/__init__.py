"""Works beside a scheduler that is there already: asks it for GPUs as an ordinary account, and follows these orders."""
