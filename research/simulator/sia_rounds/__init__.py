"""The rules of Sia's published simulator (SOSP '23, public artefact), written anew, to compare Berth with Sia on Sia's ground."""
