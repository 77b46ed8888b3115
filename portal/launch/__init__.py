"""What `./berth up` is made of: preflight, broker, supervisor, first start. Imports no Django; the first start's steps run in a process of their own."""
